package past_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/berth-scheduler/berth/cmd/berth/internal/past"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/memlog"
)

// A record without an end, packed to nearly nothing, is refused before it fills the memory.
func TestARecordWithoutEndIsRefused(t *testing.T) {
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := packer.EncodeAll(bytes.Repeat([]byte{' '}, 40<<20), nil)
	var file bytes.Buffer
	archive := tar.NewWriter(&file)
	for name, content := range map[string][]byte{
		"manifest.yaml": []byte("format: 1\n"),
		fmt.Sprintf("%s/%020d.zst", events.Facts, 1): bomb,
	} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	records, err := open(t, write(t, file.Bytes())).Open(t.Context(), events.Facts, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	if _, err := records.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("%d bytes that hold a line of 40 MiB: %v", file.Len(), err)
	}
}

func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// FuzzOpenBundle: whatever a file holds, it is a bundle that can be read to an end, or an error.
func FuzzOpenBundle(f *testing.F) {
	log := memlog.New(memlog.Options{})
	f.Cleanup(log.Close)
	m := events.EncodeFact(events.Fact{Kind: events.KindPod, Op: events.OpUpsert, UID: "u", Object: []byte("o")})
	if _, err := log.Append(f.Context(), events.Facts, events.AnySequence, []events.Message{m}); err != nil {
		f.Fatal(err)
	}
	if err := log.Put(f.Context(), events.Facts, 1, []byte("snapshot")); err != nil {
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
		for _, stream := range events.Streams() {
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
