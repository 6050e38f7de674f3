package harness

import "syscall"

// dieWithParent makes the kernel kill the child when the caller dies without cleaning up, as a test binary does when
// it runs into its timeout.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
