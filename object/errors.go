package object

import "fmt"

// PanicError reports a function of the user's that panicked. It does not unwrap to what the
// function panicked with: a panic is a panic, whatever its value is.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where
}

// Error returns the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
