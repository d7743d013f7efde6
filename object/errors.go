package object

import "fmt"

// PanicError reports a panic in a user's function. It does not unwrap to the panic's value,
// so errors.Is and errors.As never match what the function panicked with.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the goroutine that panicked
}

// Error returns the value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
