// Package attempt carries, in a context, the check that a request passes before each of its attempts. Package
// controller sets it with the fences of a reconcile, and package wire calls it, so that neither imports the other.
package attempt

import "context"

type key struct{}

// WithCheck returns a context whose requests call check before every attempt. If ctx already has a check, that
// one is called first.
func WithCheck(ctx context.Context, check func() error) context.Context {
	if outer := Check(ctx); outer != nil {
		inner := check
		check = func() error {
			if err := outer(); err != nil {
				return err
			}
			return inner()
		}
	}
	return context.WithValue(ctx, key{}, check)
}

// Check returns the check of a context, or nil.
func Check(ctx context.Context) func() error {
	check, _ := ctx.Value(key{}).(func() error)
	return check
}
