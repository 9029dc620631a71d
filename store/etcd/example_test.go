package etcd_test

import (
	"context"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/store/etcd"
)

func ExampleNew() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://db1:2379", "http://db2:2379", "http://db3:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := etcd.New(client, &etcd.Options{Prefix: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locker, err := distlock.New(store)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	err = locker.Do(ctx, "invoice/42", func(ctx context.Context) error {
		fmt.Println("the fencing token is", distlock.FromContext(ctx).Fence())
		return nil
	})
	fmt.Println(err)
}

func ExampleOpen() {
	ctx := context.Background()
	store, err := etcd.Open(ctx, "etcds://worker:password@db1,db2,db3/billing?tls_ca=/etc/ca.pem")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	fmt.Println(store.Features().MinTTL) // 2s
}

func ExampleStore_Close() {
	store, err := etcd.Open(context.Background(), "etcd://localhost")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(store.Close()) // claims stay until their TTL ends
}
