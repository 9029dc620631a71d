// Package distlockv1 is the API of the lock server: messages, clients and handlers. They are
// generated from the .proto files, and the comments of the .proto files are the reference. The file
// distlock.binpb has the same API as a descriptor, for clients without generated code.
//
// Programs in Go use package store/remote instead. It calls this API, and is itself a store.
package distlockv1
