"""What those who maintain tenuto run by hand; no part of the package."""
