package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// HistoryConfig describes what to record.
type HistoryConfig struct {
	// Kubeconfig of the cluster.
	Kubeconfig string
	// Etcd is the URL of the ledger, or DataDir that of a running `berth up`.
	Etcd, DataDir string
	// Dir gets the history and the recorder's log, both under Name.
	Dir, Name string
	// MaxMiB bounds the file; zero leaves the flag out.
	MaxMiB int
}

// History is a recording of the ledger and of the API server.
type History struct {
	*Process
	// File is where it is written.
	File string

	programs Programs
}

// Record starts `berth audit record` and returns when it sees everything that happens.
func (p Programs) Record(ctx context.Context, cfg HistoryConfig) (*History, error) {
	h := &History{File: filepath.Join(cfg.Dir, cfg.Name+".history"), programs: p}
	args := []string{"audit", "record", "--kubeconfig", cfg.Kubeconfig, "--out", h.File}
	if cfg.Etcd != "" {
		args = append(args, "--etcd-endpoints", cfg.Etcd)
	}
	if cfg.DataDir != "" {
		args = append(args, "--data-dir", cfg.DataDir)
	}
	if cfg.MaxMiB > 0 {
		args = append(args, "--max-mib", fmt.Sprint(cfg.MaxMiB))
	}
	var err error
	if h.Process, err = start(cfg.Dir, cfg.Name, p.Berth, args...); err != nil {
		return nil, err
	}
	err = Eventually(ctx, readyWithin, cfg.Name+" records", func(context.Context) (string, error) {
		if err := h.Ended(); err != nil {
			return "", err
		}
		log, err := os.ReadFile(h.Log)
		if err != nil || strings.Contains(string(log), "recording to ") {
			return "", err
		}
		return "it has not said so", nil
	})
	if err != nil {
		h.Kill()
		return nil, errors.Join(err, errors.New(h.Tail()))
	}
	return h, nil
}

// Audit ends the recording and replays it. The result's code is 1 when there are violations.
func (h *History) Audit(ctx context.Context) (Result, error) {
	if err := h.Stop(ctx); err != nil {
		return Result{}, err
	}
	return h.programs.Command(ctx, "audit", h.File)
}
