package past

import (
	"archive/tar"
	"bufio"
	"cmp"
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

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// Format is the latest version of the layout; later ones are refused. Version 2 has records of frames, which share
// their sequence and have an index. A bundle without such records has version 1, which earlier programs read.
const Format = 2

const formatWithoutFrames = 1

// These are the members of a bundle. Members with records are named STREAM/FIRST.zst, by the sequence of their first
// record.
const (
	manifestMember = "manifest.yaml"
	configMember   = "config/scheduler.yaml"
	policyMember   = "config/policy.yaml"
	snapshotPrefix = "snapshot/"
	compressed     = ".zst"
	sequenceDigits = 20
)

// Manifest describes the content of a bundle. In the file it looks like this:
//
//	format: 1
//	version: v1.2.3
//	kubernetes: "1.36"
//	created: "2026-01-01T12:00:00Z"
//	snapshot: 12345
//	streams:
//	  FACTS: {first: 1200, last: 20000}
//	  …
type Manifest struct {
	// Format is the bundle's format; Version and Kubernetes are those of the berth that wrote it.
	Format     int       `json:"format"`
	Version    string    `json:"version"`
	Kubernetes string    `json:"kubernetes"`
	Created    time.Time `json:"created"`
	// Streams holds the span of each stream.
	Streams map[eventlog.Stream]Span `json:"streams"`
	// Snapshot is the sequence of the facts' snapshot, 0 for none.
	Snapshot uint64 `json:"snapshot,omitempty"`
	// Unreadable counts facts that Export could not decode: they are in the bundle without their objects. It is not
	// in the file.
	Unreadable int `json:"-"`
}

// Span is the range of sequences of a stream; First is 0 if the stream was empty.
type Span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// line is the form of one record in a bundle: one line of JSON, with the data in base64.
type line struct {
	Sequence uint64          `json:"sequence"`
	Index    int             `json:"index,omitempty"`
	Time     time.Time       `json:"time"`
	Subject  string          `json:"subject"`
	Header   eventlog.Header `json:"header,omitempty"`
	Data     []byte          `json:"data,omitempty"`
}

// Bundle is a file that Export has written. It must be closed after use. Several goroutines may read from it, each
// with its own Records: members are read at their offsets, without a shared position.
type Bundle struct {
	Manifest Manifest
	// Config and Policy are the configuration files, empty if they were not given.
	Config, Policy []byte

	file *os.File
	// size is the size of the file.
	size     int64
	members  []member
	snapshot *member
	// seen holds the names of the members; all snapshots share one name.
	seen map[string]bool
}

// member is a part of the file: the place of its compressed content, and the sequence in its name.
type member struct {
	name, dir    string
	first        uint64
	offset, size int64
}

var _ rerun.Source = (*Bundle)(nil)

// OpenBundle reads the contents of a bundle, but not its records: the manifest, the configuration, and where each
// member is. An error names the file and its size.
func OpenBundle(path string) (*Bundle, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Bundle{file: file, seen: map[string]bool{}}
	info, err := file.Stat()
	if err == nil {
		b.size = info.Size()
		err = b.index()
	}
	if err != nil {
		return nil, errors.Join(b.failed(err), file.Close())
	}
	return b, nil
}

// failed adds the file and its size to an error.
func (b *Bundle) failed(err error) error {
	return fmt.Errorf("bundle %s (%d bytes): %w", b.file.Name(), b.size, err)
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
	// The manifest is written last, so a file without one is incomplete.
	if b.Manifest.Format == 0 {
		return errors.New("not a bundle, or cut off: it has no " + manifestMember)
	}
	if b.Manifest.Format < 1 || b.Manifest.Format > Format {
		return fmt.Errorf("format %d: want 1 to %d (newer ones need a newer berth)", b.Manifest.Format, Format)
	}
	return nil
}

// add records one member of the archive. A member that is given twice is refused: tools could differ in which of the
// two they read.
func (b *Bundle) add(header *tar.Header, content io.Reader) error {
	dir, number, _ := strings.Cut(strings.TrimSuffix(header.Name, compressed), "/")
	isSnapshot, name := dir+"/" == snapshotPrefix, header.Name
	if isSnapshot {
		name = dir
	}
	if b.seen[name] {
		return errors.New("given twice: want each member once")
	}
	b.seen[name] = true
	switch header.Name {
	case manifestMember:
		text, err := readAtMost(content, maxManifest)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &b.Manifest)
		}
		return err
	case configMember:
		var err error
		b.Config, err = readAtMost(content, maxConfig)
		return err
	case policyMember:
		var err error
		b.Policy, err = readAtMost(content, maxConfig)
		return err
	}
	// The tar reader has read exactly the header, so the file's position is the beginning of the content.
	offset, err := b.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	m := member{name: header.Name, dir: dir, offset: offset, size: header.Size}
	if m.first, err = strconv.ParseUint(number, 10, 64); err != nil {
		return fmt.Errorf("want a directory and the number of a record: %w", err)
	}
	if isSnapshot {
		b.snapshot = &m
		return nil
	}
	b.members = append(b.members, m)
	return nil
}

// Open implements rerun.Source. Members are in the order of their first records, so reading can begin in the last one
// that begins at or before from. Records before from are skipped.
func (b *Bundle) Open(_ context.Context, s eventlog.Stream, from uint64) (rerun.Records, error) {
	var parts []member
	for _, m := range b.members {
		if m.dir != string(s) {
			continue
		}
		// Members are in the order of the file, which is that of their sequences.
		if m.first <= from {
			parts = parts[:0] // the first requested record is in this member or a later one
		}
		parts = append(parts, m)
	}
	return &bundleRecords{bundle: b, parts: slices.Clone(parts), from: from}, nil
}

// Snapshot implements rerun.Source. It unpacks the snapshot twice, so that the size is known before memory is
// allocated.
func (b *Bundle) Snapshot(context.Context) (sequence uint64, data []byte, ok bool, err error) {
	if b.snapshot == nil {
		return 0, nil, false, nil
	}
	if data, err = b.whole(*b.snapshot); err != nil {
		return 0, nil, false, b.failed(fmt.Errorf("member %s: %w", b.snapshot.name, err))
	}
	return b.snapshot.first, data, true, nil
}

// whole unpacks a member into memory.
func (b *Bundle) whole(m member) ([]byte, error) {
	u := &unpacker{most: maxSnapshot}
	defer u.close()
	if err := u.open(b.file, m); err != nil {
		return nil, err
	}
	// The first pass finds the size and fails beyond the limits, before memory is allocated.
	size, err := io.Copy(io.Discard, u)
	if err != nil {
		return nil, err
	}
	u.packed, u.unpacked = 0, 0
	if err := u.open(b.file, m); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	_, err = io.ReadFull(u, data)
	return data, err
}

// bundleRecords reads the members of a stream one after the other.
type bundleRecords struct {
	bundle   *Bundle
	parts    []member
	from     uint64
	unpacker unpacker
	// lines scans the member that is being read, and name is its name.
	lines *bufio.Scanner
	name  string
}

// Next returns the next record, or io.EOF behind the last member.
func (r *bundleRecords) Next(ctx context.Context) (eventlog.Record, error) {
	for {
		if err := ctx.Err(); err != nil {
			return eventlog.Record{}, err
		}
		// Members are opened one after the other; the unpacker counts bytes over all of them.
		if r.lines == nil {
			if len(r.parts) == 0 {
				return eventlog.Record{}, io.EOF
			}
			if err := r.open(); err != nil {
				return eventlog.Record{}, r.failed(err)
			}
		}
		if !r.lines.Scan() {
			if err := r.lines.Err(); err != nil {
				return eventlog.Record{}, r.failed(err)
			}
			r.lines = nil
			continue
		}
		var l line
		if err := json.Unmarshal(r.lines.Bytes(), &l); err != nil {
			// A line may end early because unpacking has failed.
			return eventlog.Record{}, r.failed(cmp.Or(r.lines.Err(), err))
		}
		if l.Sequence < r.from {
			continue
		}
		return eventlog.Record{
			Message:  eventlog.Message{Subject: l.Subject, Header: l.Header, Data: l.Data},
			Sequence: l.Sequence, Index: l.Index, Time: l.Time,
		}, nil
	}
}

// open opens the next member.
func (r *bundleRecords) open() error {
	m := r.parts[0]
	r.parts, r.name = r.parts[1:], m.name
	if err := r.unpacker.open(r.bundle.file, m); err != nil {
		return err
	}
	r.lines = bufio.NewScanner(&r.unpacker)
	r.lines.Buffer(nil, maxLine)
	return nil
}

// failed adds the bundle and the member to an error.
func (r *bundleRecords) failed(err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("a record exceeds %d bytes: %w", maxLine, err)
	}
	return r.bundle.failed(fmt.Errorf("member %s: %w", r.name, err))
}

// Close releases the decoder; the file belongs to the bundle.
func (r *bundleRecords) Close() { r.unpacker.close() }
