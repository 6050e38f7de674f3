package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// etcdData is the folder of a cluster's directory that has the data of its etcd.
const etcdData = "etcd"

// BackUp copies the data of the cluster's etcd to a directory that does not exist yet. etcd is paused during the
// copy, so that it is consistent; a start from it looks like one after a crash.
func (c *Cluster) BackUp(to string) error {
	if err := c.Signal("etcd", syscall.SIGSTOP); err != nil {
		return err
	}
	err := os.CopyFS(to, os.DirFS(filepath.Join(c.Dir, etcdData)))
	return errors.Join(err, c.Signal("etcd", syscall.SIGCONT))
}

// Restore stops the control plane, puts back what BackUp copied, and starts the control plane with that, with the API
// server at its old address. Kubelets and controllers are restarted as well, as they must be.
func (c *Cluster) Restore(ctx context.Context, from string) error {
	server, err := url.Parse(c.Rest.Host)
	if err != nil {
		return err
	}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	data := filepath.Join(c.Dir, etcdData)
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(from)); err != nil {
		return err
	}
	if err := os.Chmod(data, 0o700); err != nil { // what etcd asks for
		return err
	}
	state, err := c.programs.drive(ctx, append(slices.Clone(c.arguments), "--port", server.Port())...)
	if err != nil {
		return fmt.Errorf("start the restored cluster: %w", err)
	}
	c.processes = state.named()
	return nil
}
