package past_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/pkg/state"
)

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FuzzOpenBundle: whatever a file contains, it is a bundle that can be read to an end, or an error.
func FuzzOpenBundle(f *testing.F) {
	log := memlog.New(memlog.Options{})
	f.Cleanup(log.Close)
	m := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Object: []byte("o")})
	if _, err := log.Append(f.Context(), eventlog.Facts, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
		f.Fatal(err)
	}
	data, _, err := state.New().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	if err := log.Put(f.Context(), eventlog.Facts, 1, data); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "bundle.tar")
	out, err := os.Create(path)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := past.Export(f.Context(), out, past.Live{Log: log}, past.Contents{Now: time.Unix(1, 0)}); err != nil {
		f.Fatal(err)
	}
	if err := out.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := past.OpenBundle(write(t, content))
		if err != nil {
			return
		}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		_, _, _, _ = b.Snapshot(t.Context())
		for _, stream := range eventlog.Streams() {
			records, err := b.Open(t.Context(), stream, 1)
			if err != nil {
				continue
			}
			for err == nil {
				_, err = records.Next(t.Context())
			}
			records.Close()
		}
	})
}
