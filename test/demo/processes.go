package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	readyTimeout = 60 * time.Second
	readyPoll    = 100 * time.Millisecond
	stopTimeout  = 20 * time.Second
	logTail      = 2000
)

// prepare clears what an earlier run left.
func (d *demo) prepare() error {
	for _, p := range []*string{&d.bin, &d.dir, &d.nodes} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	for _, name := range []string{"cluster", "berth"} {
		if _, err := os.Stat(filepath.Join(d.bin, name)); err != nil {
			return fmt.Errorf("%w; `make demo` builds it", err)
		}
	}
	if err := d.stop(); err != nil {
		return fmt.Errorf("stop what an earlier demo left running: %w", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	return os.MkdirAll(d.dir, 0o700)
}

func (d *demo) clusterDir() string { return filepath.Join(d.dir, "cluster") }
func (d *demo) dataDir() string    { return filepath.Join(d.dir, "berth-data") }
func (d *demo) kubeconfig() string { return filepath.Join(d.clusterDir(), "kubeconfig") }
func (d *demo) pidFile() string    { return filepath.Join(d.dir, "berth.pid") }
func (d *demo) berthLog() string   { return filepath.Join(d.dir, "berth.log") }

func (d *demo) startCluster(ctx context.Context) error {
	args := []string{"up", "--dir", d.clusterDir(), "--detach", "--nodes", d.nodes}
	if !d.keep {
		args = append(args, "--parent-pid", strconv.Itoa(os.Getpid()))
	}
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "cluster"), args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster up: %w\n%s", err, tail(output.Bytes()))
	}
	return nil
}

// startBerth starts `berth up` and waits until it is ready.
func (d *demo) startBerth(ctx context.Context) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	log, err := os.Create(d.berthLog())
	if err != nil {
		return err
	}
	defer log.Close()                                        //nolint:errcheck // the child has its own handle
	cmd := exec.Command(filepath.Join(d.bin, "berth"), "up", //nolint:noctx // outlives ctx with DEMO_KEEP=1; stop ends it
		"--kubeconfig", d.kubeconfig(), "--data-dir", d.dataDir(),
		"--shards", "2", "--binders", "2", "--http-address", address)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(d.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	err = wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-exited:
			return false, fmt.Errorf("berth up ended: %w", err)
		default:
			return ready(ctx, address), nil
		}
	})
	if err != nil {
		raw, _ := os.ReadFile(d.berthLog()) // only to explain err
		return fmt.Errorf("berth is not ready: %w\n%s", err, tail(raw))
	}
	return nil
}

func ready(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (d *demo) client() (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig())
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = -1, -1
	return kubernetes.NewForConfig(cfg)
}

// stop ends Berth, then the cluster; nothing to stop is fine.
func (d *demo) stop() error {
	var errs []error
	if raw, err := os.ReadFile(d.pidFile()); err == nil {
		pid, err := strconv.Atoi(string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", d.pidFile(), err)
		}
		errs = append(errs, endProcess(pid))
		_ = os.Remove(d.pidFile())
	}
	if _, err := os.Stat(d.clusterDir()); err == nil {
		//nolint:noctx // must run after ctx has ended
		out, err := exec.Command(filepath.Join(d.bin, "cluster"), "down", "--dir", d.clusterDir()).CombinedOutput()
		if err != nil {
			errs = append(errs, fmt.Errorf("cluster down: %w\n%s", err, tail(out)))
		}
	}
	return errors.Join(errs...)
}

// endProcess asks a process to stop and waits until it has.
func endProcess(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return nil // it is gone
	}
	gone := func(context.Context) (bool, error) {
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil) // reaps our own child
		return syscall.Kill(pid, 0) != nil, nil
	}
	if err := wait.PollUntilContextTimeout(context.Background(), readyPoll, stopTimeout, true, gone); err != nil {
		late := fmt.Errorf("berth (pid %d) did not stop in %s", pid, stopTimeout)
		return errors.Join(late, syscall.Kill(pid, syscall.SIGKILL))
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // nothing was sent on it
	return l.Addr().String(), nil
}

func tail(b []byte) []byte {
	if len(b) > logTail {
		return b[len(b)-logTail:]
	}
	return b
}

func (d *demo) printUsage() {
	fmt.Printf(`
The cluster and Berth keep running. Use them:

  export KUBECONFIG=%s
  kubectl get pods -n demo -o wide
  kubectl -n demo scale deployment web --replicas 90
  %s check

Berth's log: %s
Stop both:   make demo-stop
`, d.kubeconfig(), filepath.Join(d.bin, "berth"), d.berthLog())
}
