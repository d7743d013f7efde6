//go:build !unix

package journal

import (
	"errors"
	"os"
)

// lock fails: a lock that outlives its process would block the next one.
func lock(string) (*os.File, error) {
	return nil, errors.New("a journal needs file locks of Unix; this system has none")
}
