package past

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// Format is the version of the layout that is written; later ones are refused.
const Format = 1

// The members of a bundle. Members of records are named STREAM/FIRST.zst, by the sequence of their
// first record.
const (
	manifestMember  = "manifest.yaml"
	configMember    = "config/scheduler.yaml"
	policyMember    = "config/policy.yaml"
	snapshotPrefix  = "snapshot/"
	compressed      = ".zst"
	maxManifest     = 1 << 20
	maxConfig       = 16 << 20
	sequenceDigits  = 20
	maxMemberMemory = 256 << 20
	// maxSnapshot bounds a snapshot once it is unpacked, and maxLine one record: a bundle comes from
	// somewhere else, and must not fill the memory of who reads it. The first is several times what a
	// cluster of a hundred thousand nodes takes, the second several times events.MaxMessage.
	maxSnapshot = 16 << 30
	maxLine     = 32 << 20
)

// Manifest says what a bundle holds.
type Manifest struct {
	// Format of the bundle; Version and Kubernetes of the berth that wrote it.
	Format     int       `json:"format"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Created    time.Time `json:"created"`
	// Streams by name.
	Streams map[events.Stream]Span `json:"streams"`
	// Snapshot is the sequence of the facts' snapshot, 0 for none.
	Snapshot uint64 `json:"snapshot,omitempty"`
}

// Span is what a stream held; First is 0 if it was empty.
type Span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// line is one record as a bundle has it.
type line struct {
	Sequence uint64        `json:"sequence"`
	Time     time.Time     `json:"time"`
	Subject  string        `json:"subject"`
	Header   events.Header `json:"header,omitempty"`
	Data     []byte        `json:"data,omitempty"`
}

// Bundle is a file that Export has written. Close it after use; what it has opened may be read by
// several goroutines, each its own.
type Bundle struct {
	Manifest Manifest
	// Config and Policy are the files of the configuration, empty if they were not given.
	Config, Policy []byte

	file     *os.File
	members  []member
	snapshot *member
}

type member struct {
	name         string
	first        uint64
	offset, size int64
}

var _ rerun.Source = (*Bundle)(nil)

// OpenBundle reads the contents of a bundle, not its records.
func OpenBundle(path string) (*Bundle, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Bundle{file: file}
	if err := b.index(); err != nil {
		return nil, errors.Join(fmt.Errorf("bundle %s: %w", path, err), file.Close())
	}
	return b, nil
}

// Close closes the file.
func (b *Bundle) Close() error { return b.file.Close() }

// index finds the members. (A tar.Reader reads no further than the header that it returns.)
func (b *Bundle) index() error {
	archive := tar.NewReader(b.file)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("not a bundle, or cut off: %w", err)
		}
		if err := b.add(header, archive); err != nil {
			return fmt.Errorf("member %s: %w", header.Name, err)
		}
	}
	if b.Manifest.Format == 0 {
		return errors.New("not a bundle, or cut off: it has no " + manifestMember)
	}
	if b.Manifest.Format < 1 || b.Manifest.Format > Format {
		return fmt.Errorf("format %d: want 1 to %d (newer ones need a newer berth)", b.Manifest.Format, Format)
	}
	return nil
}

func (b *Bundle) add(header *tar.Header, content io.Reader) (err error) {
	switch header.Name {
	case manifestMember:
		var text []byte
		if text, err = readAtMost(content, maxManifest); err == nil {
			err = yaml.UnmarshalStrict(text, &b.Manifest)
		}
		return err
	case configMember:
		b.Config, err = readAtMost(content, maxConfig)
		return err
	case policyMember:
		b.Policy, err = readAtMost(content, maxConfig)
		return err
	}
	offset, err := b.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	dir, number, _ := strings.Cut(strings.TrimSuffix(header.Name, compressed), "/")
	m := member{name: dir, offset: offset, size: header.Size}
	if m.first, err = strconv.ParseUint(number, 10, 64); err != nil {
		return fmt.Errorf("want a directory and the number of a record: %w", err)
	}
	if dir+"/" == snapshotPrefix {
		b.snapshot = &m
		return nil
	}
	b.members = append(b.members, m)
	return nil
}

// Open implements rerun.Source.
func (b *Bundle) Open(_ context.Context, s events.Stream, from uint64) (rerun.Records, error) {
	var parts []member
	for _, m := range b.members {
		if m.name != string(s) {
			continue
		}
		if m.first <= from {
			parts = parts[:0] // what is asked for begins in this one or later
		}
		parts = append(parts, m)
	}
	return &bundleRecords{bundle: b, parts: slices.Clone(parts), from: from}, nil
}

// Snapshot implements rerun.Source.
func (b *Bundle) Snapshot(context.Context) (sequence uint64, data []byte, ok bool, err error) {
	if b.snapshot == nil {
		return 0, nil, false, nil
	}
	z, err := b.unpack(*b.snapshot)
	if err != nil {
		return 0, nil, false, err
	}
	defer z.Close()
	data, err = readAtMost(z, maxSnapshot)
	if err != nil {
		return 0, nil, false, fmt.Errorf("bundle: snapshot: %w", err)
	}
	return b.snapshot.first, data, true, nil
}

// readAtMost reads everything, and refuses more than a number of bytes.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than the %d bytes that are accepted", limit)
	}
	return data, err
}

func (b *Bundle) unpack(m member) (*zstd.Decoder, error) {
	return zstd.NewReader(io.NewSectionReader(b.file, m.offset, m.size),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxMemberMemory))
}

// bundleRecords reads the members of a stream one after the other.
type bundleRecords struct {
	bundle *Bundle
	parts  []member
	from   uint64
	z      *zstd.Decoder
	lines  *bufio.Scanner
}

func (r *bundleRecords) Next(ctx context.Context) (events.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return events.Record{}, err
		}
		if r.lines == nil {
			if len(r.parts) == 0 {
				return events.Record{}, io.EOF
			}
			z, err := r.bundle.unpack(r.parts[0])
			if err != nil {
				return events.Record{}, err
			}
			r.parts, r.z, r.lines = r.parts[1:], z, bufio.NewScanner(z)
			r.lines.Buffer(nil, maxLine)
		}
		if !r.lines.Scan() {
			if err := r.lines.Err(); err != nil {
				return events.Record{}, fmt.Errorf("bundle: %w", err)
			}
			r.Close()
			continue
		}
		var l line
		if err := json.Unmarshal(r.lines.Bytes(), &l); err != nil {
			return events.Record{}, fmt.Errorf("bundle: %w", err)
		}
		if l.Sequence < r.from {
			continue
		}
		return events.Record{
			Message:  events.Message{Subject: l.Subject, Header: l.Header, Data: l.Data},
			Sequence: l.Sequence, Time: l.Time,
		}, nil
	}
}

func (r *bundleRecords) Close() {
	if r.z != nil {
		r.z.Close()
		r.z, r.lines = nil, nil
	}
}
