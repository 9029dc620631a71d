package main

// defaultStore is the store of those who name none: a file in the user's state directory.
const defaultStore = "sqlite:"
