"""Pure functions of a state and a time. No asyncio, no store, nothing that is kept."""
