package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	errTooLarge  = errors.New("it is too large")
	errIrregular = errors.New("it is not a regular file")
	errDirectory = errors.New("it is a directory")
)

// readFile reads a regular file of up to limit bytes. Anything else is refused, because a pipe
// may never end its wait, and a device never its content.
func readFile(path string, limit int64) ([]byte, error) {
	// A pipe without a writer is opened at once, and then refused.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, errIrregular // a socket
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, errIrregular
	}
	// It may grow meanwhile.
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(content)) > limit {
		return nil, errTooLarge
	}
	return content, err
}

// readable returns why a kubeconfig cannot be read. A pipe, which a shell makes of <(command), is
// fine and not opened: its content can be read once. The null device is an empty kubeconfig.
func readable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errDirectory
	case info.Mode()&fs.ModeNamedPipe != 0, path == os.DevNull:
		return nil
	case !info.Mode().IsRegular():
		return errIrregular
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// interruptible calls a function that cannot be interrupted itself, such as one that reads or parses
// a file, and returns its result, or the context's error as soon as that ends. The function then
// goes on until it returns, or the process ends.
func interruptible[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		value, err := f()
		ended <- outcome{value, err}
	}()
	select {
	case got := <-ended:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
