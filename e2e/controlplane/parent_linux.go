package controlplane

import "syscall"

// dieWithParent has the kernel kill the process when the test's process is gone, and keeps
// a terminal's interrupt from it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
