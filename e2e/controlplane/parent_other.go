//go:build !linux

package controlplane

import "syscall"

// dieWithParent can do nothing here: Close has to be called.
func dieWithParent() *syscall.SysProcAttr { return nil }
