from tenuto.models.catalogue import ModelInfo, heed
from tenuto.models.ports import ModelSettings

WANTED = ModelSettings(temperature=0.0, top_p=0.5, top_k=3, seed=1, max_output_tokens=9)


def test_sampling_is_left_out_of_what_refuses_it_and_said():
    kept, warnings = heed(WANTED, ModelInfo(id="m", temperature=False))
    assert kept == ModelSettings(seed=1, max_output_tokens=9)
    assert [warning["setting"] for warning in warnings] == ["temperature", "topP", "topK"]
    assert all(warning["type"] == "unsupported-setting" for warning in warnings)


def test_what_is_not_said_to_be_refused_is_sent():
    for info in (None, ModelInfo(id="m")):
        assert heed(WANTED, info) == (WANTED, ())
    assert heed(ModelSettings(seed=1), ModelInfo(id="m", temperature=False)) == (ModelSettings(seed=1), ())
