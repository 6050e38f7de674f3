package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// profileSeconds is how long processes are profiled, from the arrival of the pods on.
const profileSeconds = 5

// profile starts a profile of each process that serves them, and returns what waits for their
// end: one file for each in the report's directory.
func (b *bench) profile(ctx context.Context, members []member) (wait func() error) {
	if !b.profiling {
		return func() error { return nil }
	}
	g, ctx := errgroup.WithContext(ctx)
	for i, m := range members {
		if m.berth != nil {
			path := filepath.Join(b.out, fmt.Sprintf("path-%s-%d.pprof", m.service, i))
			g.Go(func() error { return save(ctx, m.berth.Address, path) })
		}
	}
	return g.Wait
}

func save(ctx context.Context, address, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, profileSeconds)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, answer.Body)
	return errors.Join(err, file.Close())
}
