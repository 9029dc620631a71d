package etcdfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/distlock/distlock"
	"github.com/distlock/distlock/fence"
	"github.com/distlock/distlock/fence/etcdfence"
)

func connect() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://db1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleNew() {
	guard, err := etcdfence.New(connect(), "billing") // the prefix of the locks
	if err != nil {
		log.Fatal(err)
	}
	_ = guard
}

func ExampleGuard_Do() {
	guard, err := etcdfence.New(connect(), "")
	if err != nil {
		log.Fatal(err)
	}
	var locker *distlock.Locker // on the same cluster
	err = locker.Do(context.Background(), "invoice/42", func(ctx context.Context) error {
		_, err := guard.Do(ctx, distlock.FromContext(ctx), clientv3.OpPut("invoice/42/total", "100"))
		return err
	})
	fmt.Println(errors.Is(err, fence.ErrStale))
}

func ExampleGuard_Held() {
	client := connect()
	guard, err := etcdfence.New(client, "")
	if err != nil {
		log.Fatal(err)
	}
	var lease *distlock.Lease
	held, err := guard.Held(lease)
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Txn(context.Background()).
		If(held, clientv3.Compare(clientv3.Version("invoice/42/paid"), "=", 0)).
		Then(clientv3.OpPut("invoice/42/paid", "yes")).
		Commit()
	fmt.Println(resp.Succeeded, err)
}
