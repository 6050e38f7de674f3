package main

import (
	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// sessionFlags are the flags of every command that starts children.
type sessionFlags struct {
	dir       string
	parentPID int
	detach    bool
}

func (f *sessionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory for all files (required)")
	cmd.Flags().IntVar(&f.parentPID, "parent-pid", 0, "stop when the process with this PID exits (0: never)")
	cmd.Flags().BoolVar(&f.detach, "detach", false, "return when everything is ready, and keep it running")
	_ = cmd.MarkFlagRequired("dir")
}

func (f *sessionFlags) options(cmd *cobra.Command) session.Options {
	return session.Options{
		Dir:      f.dir,
		Owners:   []int{f.parentPID},
		Detach:   f.detach,
		Out:      cmd.OutOrStdout(),
		Progress: cmd.ErrOrStderr(),
	}
}

// addDir adds the flag that names an existing session.
func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", "", "directory given to `cluster up` (required)")
	_ = cmd.MarkFlagRequired("dir")
}
