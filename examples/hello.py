from tenuto import Agent, tool


@tool(effects="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


agent = Agent(name="calc", instructions="Be brief.", model="openai/gpt-5-mini", tools=[add])

if __name__ == "__main__":
    print(agent.generate_sync("What is 17 plus 25?").text)
