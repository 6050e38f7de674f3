//go:build !linux

package process

import "syscall"

// dieWithSupervisor does nothing where the kernel has no such service: there
// "cluster down" finds and ends the children of a supervisor that was killed.
func dieWithSupervisor(*syscall.SysProcAttr) {}
