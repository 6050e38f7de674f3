package past_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// content is a member of a bundle that Export has not written.
type content struct {
	name string
	data []byte
}

// bundleOf writes a bundle of these members after a manifest.
func bundleOf(t *testing.T, members ...content) (path string, size int) {
	t.Helper()
	var file bytes.Buffer
	archive := tar.NewWriter(&file)
	for _, m := range append([]content{{"manifest.yaml", []byte("format: 1\n")}}, members...) {
		if err := archive.WriteHeader(&tar.Header{Name: m.name, Mode: 0o600, Size: int64(len(m.data))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, file.Bytes()), file.Len()
}

// packed returns some bytes repeated many times, compressed as much as possible.
func packed(t *testing.T, over []byte, times int, options ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, options...)
	if err != nil {
		t.Fatal(err)
	}
	for range times {
		if _, err := z.Write(over); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// record returns a line that can be read.
func record(t *testing.T, bytes int) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{"sequence": 1, "subject": "decisions.a.placed", "data": make([]byte, bytes)})
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// recordsOf returns the name of a member of a stream.
func recordsOf(s eventlog.Stream, first int) string { return fmt.Sprintf("%s/%020d.zst", s, first) }

// readAll reads everything that a bundle has, and keeps nothing.
func readAll(t *testing.T, path string) error {
	b, err := past.OpenBundle(path)
	if err != nil {
		return err
	}
	defer b.Close() //nolint:errcheck // only read
	if _, _, _, err := b.Snapshot(t.Context()); err != nil {
		return err
	}
	for _, stream := range eventlog.Streams() {
		if err := drain(t, b, stream); err != nil {
			return err
		}
	}
	return nil
}

func drain(t *testing.T, src rerun.Source, s eventlog.Stream) error {
	records, err := src.Open(t.Context(), s, 1)
	if err != nil {
		return err
	}
	defer records.Close()
	for err == nil {
		_, err = records.Next(t.Context())
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A small file that unpacks to more than the memory holds is refused, whichever member does it, before the unpacked
// data is held; the error names the file, its size, the member and the limit.
func TestBombsAreRefused(t *testing.T) {
	const (
		mib    = 1 << 20
		budget = 512 * mib
	)
	zeros := make([]byte, mib)
	line := record(t, 100<<10)
	var many []content
	for i := range 100 {
		many = append(many, content{recordsOf(eventlog.Decisions, i+1), packed(t, line, 8)})
	}
	for name, c := range map[string]struct {
		members []content
		want    string
	}{
		"a snapshot of 1 GiB of zeros": {
			[]content{{"snapshot/1.zst", packed(t, zeros, 1<<10)}},
			"packed bytes unpack to more than ",
		},
		"a snapshot that refers far back": {
			[]content{{"snapshot/1.zst", packed(t, zeros, 130, zstd.WithWindowSize(128*mib))}},
			"snapshot/1.zst: window size exceeded",
		},
		"a record of 100 MiB": {
			[]content{{recordsOf(eventlog.Facts, 1), packed(t, bytes.Repeat([]byte{' '}, mib), 100)}},
			recordsOf(eventlog.Facts, 1) + ": a record exceeds 4194304 bytes",
		},
		"many records in one member": {
			[]content{{recordsOf(eventlog.Ledger, 1), packed(t, line, 1000)}},
			"want at most 67108864 plus 200 for each of them",
		},
		"records in many members": {many, "want at most 67108864 plus 200 for each of them"},
		"a configuration of 2 MiB": {
			[]content{{"config/scheduler.yaml", make([]byte, 2*mib)}},
			"member config/scheduler.yaml: larger than the limit of 1048576 bytes",
		},
		"a policy of 2 MiB": {
			[]content{{"config/policy.yaml", make([]byte, 2*mib)}},
			"member config/policy.yaml: larger than the limit of 1048576 bytes",
		},
		"a second manifest": {
			[]content{{"manifest.yaml", make([]byte, 2*mib)}}, "member manifest.yaml: given twice",
		},
		"a second snapshot": {
			[]content{{"snapshot/1.zst", nil}, {"snapshot/2.zst", nil}}, "member snapshot/2.zst: given twice",
		},
	} {
		path, size := bundleOf(t, c.members...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := readAll(t, path)
		runtime.ReadMemStats(&after)
		file := fmt.Sprintf("bundle %s (%d bytes): ", path, size)
		if err == nil || !strings.HasPrefix(err.Error(), file) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q and %q", name, err, file, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > budget {
			t.Errorf("%s: %d bytes, for which %d MiB were allocated, want at most %d", name, size, took/mib, budget/mib)
		}
	}
}

// What Export writes can be read, even if it is compressed to nearly nothing.
func TestWhatPacksWellCanBeRead(t *testing.T) {
	log := memlog.New(memlog.Options{})
	t.Cleanup(log.Close)
	const records = 80
	m := eventlog.Message{Subject: "decisions.a.placed", Data: make([]byte, 900<<10)}
	for range records {
		if _, err := log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, []eventlog.Message{m}); err != nil {
			t.Fatal(err)
		}
	}
	_, path := export(t, past.Live{Log: log}, past.Contents{})
	if got := len(read(t, open(t, path), eventlog.Decisions, 1)); got != records {
		t.Errorf("%d records, want %d", got, records)
	}
}
