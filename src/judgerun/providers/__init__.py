"""One file per dialect: encode and decode are pure; http.py alone imports aiohttp."""
