package main

// defaultStore is the store that is used if none is named: a file in the user's state directory.
const defaultStore = "sqlite:"
