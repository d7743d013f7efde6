package controlplane

import "syscall"

// dieWithParent has the kernel kill the process when the test's process ends, and shields it
// from a terminal's interrupt.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
