package path

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

// profile starts a profile of each process that serves them, and returns a function that waits for their end and
// saves the allocations since the start: two files for each in the report's directory.
func (o options) profile(ctx context.Context, members []member) (wait func() error) {
	if !o.profiling {
		return func() error { return nil }
	}
	g, profiling := errgroup.WithContext(ctx)
	each(members, func(i int, m member) {
		path := filepath.Join(o.out, fmt.Sprintf("path-%s-%d.pprof", m.service, i))
		g.Go(func() error {
			return save(profiling, m, fmt.Sprintf("profile?seconds=%.0f", o.profiled.Seconds()), path)
		})
	})
	return func() error {
		err := g.Wait()
		each(members, func(i int, m member) {
			path := filepath.Join(o.out, fmt.Sprintf("path-%s-%d-allocs.pprof", m.service, i))
			err = errors.Join(err, save(ctx, m, "allocs", path))
		})
		return err
	}
}

// each calls do for every process that serves profiles.
func each(members []member, do func(int, member)) {
	for i, m := range members {
		if m.berth != nil {
			do(i, m)
		}
	}
}

func save(ctx context.Context, m member, profile, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/%s", m.berth.Address, profile)
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
