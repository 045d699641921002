"""The rules of money: entries, caps, prices, the account, the outcome table; pure functions over integers."""
