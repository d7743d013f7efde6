package reflector_test

import (
	"context"
	"fmt"

	"github.com/tarnproject/tarn/internal/sim/simtest"
	"github.com/tarnproject/tarn/reflector"
)

// A reader that waits for a version of a quiet resource asks the server to confirm it. Here an event
// arrives first.
func ExampleReflector_Confirm() {
	src := simtest.Pods("shop/db") // version 101
	buffer := podQueue()
	r, err := reflector.New[pod](src, buffer, reflector.Options[pod]{Name: "pods"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	printUntil(ctx, buffer, "101")
	r.Confirm("102")
	src.Set("shop/web")
	printUntil(ctx, buffer, "102")
	cancel()
	fmt.Println(<-done)
	// Output:
	// Replaced: 1 pods
	// Added shop/web
	// <nil>
}
