package process

import "syscall"

// dieWithSupervisor has the kernel kill the child when the thread that starts
// it ends. The Go runtime ends a thread only when a goroutine locked to it
// returns, and this program locks none, so that is when the process dies.
func dieWithSupervisor(attr *syscall.SysProcAttr) {
	attr.Pdeathsig = syscall.SIGKILL
}
