//go:build !linux

package harness

import "syscall"

// dieWithParent: only Linux can tie a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
