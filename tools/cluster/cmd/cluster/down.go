package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

func downCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop everything that runs in a directory, and wait until no process is left",
		Long: "Stops a cluster (peers first), a store or a peer. It succeeds if nothing was\n" +
			"running. Data, logs and certificates remain; `cluster up` with the same directory\n" +
			"continues with them.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			if err := stopAll(cmd.Context(), dir); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "cluster: nothing left running in %s (%s)\n",
				dir, time.Since(began).Round(10*time.Millisecond))
			return nil
		},
	}
	addDir(cmd, &dir)
	return cmd
}

// stopAll stops the peers that run against a cluster, then the cluster.
func stopAll(ctx context.Context, dir string) error {
	peerDirs, err := filepath.Glob(filepath.Join(dir, peersDir, "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, peerDir := range peerDirs {
		errs = append(errs, session.Stop(ctx, peerDir))
	}
	return errors.Join(append(errs, session.Stop(ctx, dir))...)
}

func statusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print the state of a directory; exit with 0 if it is up and ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := session.Load(dir)
			if err != nil {
				return err
			}
			alive, err := process.Alive(dir)
			if err != nil {
				return err
			}
			content, err := state.JSON()
			if err != nil {
				return err
			}
			if _, err := cmd.OutOrStdout().Write(content); err != nil {
				return err
			}
			return verdict(dir, state, alive)
		},
	}
	addDir(cmd, &dir)
	return cmd
}

// verdict compares the recorded state with the live processes: a supervisor that was killed had no chance to record
// its end.
func verdict(dir string, state session.State, alive bool) error {
	switch {
	case !alive:
		return fmt.Errorf("nothing runs in %s (last phase: %s)", dir, state.Phase)
	case state.Phase != session.Ready:
		return fmt.Errorf("the session in %s is %s", dir, state.Phase)
	}
	return nil
}
