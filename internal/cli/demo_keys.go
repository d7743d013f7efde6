package cli

import (
	"context"
	"os"
	"sync"

	"golang.org/x/term"
)

// ctrlC is what a terminal in raw mode sends for Ctrl-C.
const ctrlC = 3

// quitOnKey returns a context that ends when the user presses q or Ctrl-C. While it waits, the
// terminal is in raw mode, so that a key arrives without Enter and is not echoed; end restores
// the terminal. Without a terminal it returns ctx.
//
// The goroutine that reads keys cannot be interrupted and ends with the process.
func quitOnKey(ctx context.Context, e *env) (_ context.Context, end func()) {
	in, isFile := e.in.(*os.File)
	if _, shows := e.terminal(); !isFile || !shows || os.Getenv("TERM") == "dumb" {
		return ctx, func() {}
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil { // standard input is not a terminal
		return ctx, func() {}
	}
	e.out.returns.Store(true)
	e.err.returns.Store(true)
	ctx, cancel := context.WithCancel(ctx)
	end = sync.OnceFunc(func() {
		_ = term.Restore(int(in.Fd()), state) // there is nothing else to try
		e.out.returns.Store(false)
		e.err.returns.Store(false)
		cancel()
	})
	go func() {
		key := make([]byte, 1)
		for {
			switch _, err := in.Read(key); {
			case err != nil:
				return
			case key[0] == 'q', key[0] == 'Q', key[0] == ctrlC:
				end() // a second Ctrl-C is a signal again
				return
			}
		}
	}()
	return ctx, end
}
