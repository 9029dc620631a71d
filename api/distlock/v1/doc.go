// Package distlockv1 is the API of the lock server: messages, clients and handlers that are
// generated from the .proto files, whose comments are the reference. distlock.binpb has the same as
// a descriptor, for clients that have no generated code.
//
// Programs in Go use package store/remote instead, which speaks this API and is one more store.
package distlockv1
