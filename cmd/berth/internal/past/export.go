package past

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/rerun"
)

// memberBytes is the approximate size of a member with records before compression. Together with its compressed form,
// that is all that an export of records holds in memory.
const memberBytes = 8 << 20

// Contents holds what a bundle has in addition to the log.
type Contents struct {
	Version, Kubernetes string
	// Config and Policy are the configuration files; empty ones are left out.
	Config, Policy []byte
	Now            time.Time
}

// Export writes a bundle with the content of a log, each stream up to its end at the time it is read, and returns its
// manifest. The decisions are read first, so that the facts they were computed from are in the log by then. Objects
// are stripped, however complete they are in the log, and the configuration loses its credentials. An error, or a
// crash, leaves an incomplete file, which has no manifest and which OpenBundle refuses.
func Export(ctx context.Context, w io.Writer, src rerun.Source, c Contents) (Manifest, error) {
	m := Manifest{
		Format: formatWithoutFrames, Version: c.Version, Kubernetes: c.Kubernetes, Created: c.Now.UTC(),
		Streams: map[eventlog.Stream]Span{},
	}
	// One encoder for all members, without goroutines: an export should not take processors from the services next to
	// it.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return m, err
	}
	e := &export{archive: tar.NewWriter(w), packer: z, now: c.Now}
	if err := e.configuration(c); err != nil {
		return m, err
	}
	if m.Snapshot, err = e.snapshot(ctx, src); err != nil {
		return m, fmt.Errorf("snapshot of the facts: %w", err)
	}
	// Facts and ledger go on growing while decisions are read, so they cover all that these refer to.
	for _, s := range []eventlog.Stream{eventlog.Decisions, eventlog.Facts, eventlog.Ledger} {
		if m.Streams[s], err = e.stream(ctx, src, s); err != nil {
			return m, fmt.Errorf("stream %s: %w", s, err)
		}
	}
	m.Unreadable = e.unreadable
	if e.frames {
		m.Format = Format
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return m, err
	}
	if err := e.add(manifestMember, text); err != nil {
		return m, err
	}
	return m, e.archive.Close()
}

// configuration adds the given files, without their credentials. A file that is too large for a reader is refused now.
func (e *export) configuration(c Contents) error {
	for _, file := range []struct {
		name  string
		text  []byte
		strip func([]byte) ([]byte, error)
	}{{configMember, c.Config, stripConfig}, {policyMember, c.Policy, stripPolicy}} {
		if len(file.text) == 0 {
			continue
		}
		text, err := file.strip(file.text)
		if err == nil && len(text) > maxConfig {
			err = fmt.Errorf("%d bytes: want at most %d", len(text), maxConfig)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		if err := e.add(file.name, text); err != nil {
			return err
		}
	}
	return nil
}

// snapshot adds the newest snapshot, and returns its sequence; 0 if there is none.
func (e *export) snapshot(ctx context.Context, src rerun.Source) (sequence uint64, err error) {
	sequence, data, ok, err := src.Snapshot(ctx)
	if err != nil || !ok {
		return 0, err
	}
	if data, err = state.StripSnapshot(data); err != nil {
		return 0, fmt.Errorf("at sequence %d: %w; export it with the version of berth that wrote it", sequence, err)
	}
	return sequence, e.add(memberName(snapshotPrefix[:len(snapshotPrefix)-1], sequence), pack(e.packer, data))
}

// memberName returns the name of a member with records or a snapshot, by a sequence with a fixed number of digits, so
// that names sort like sequences.
func memberName(dir string, sequence uint64) string {
	return fmt.Sprintf("%s/%0*d%s", dir, sequenceDigits, sequence, compressed)
}

// export is a bundle being written. archive and packer are used for all of its members.
type export struct {
	archive *tar.Writer
	packer  *zstd.Encoder
	now     time.Time
	// unreadable counts the facts that were written without their objects.
	unreadable int
	// frames means that some records share a sequence.
	frames bool
}

// add writes one member. Its size must be known before, which is why members are built in memory.
func (e *export) add(name string, content []byte) error {
	const readable = 0o644
	header := &tar.Header{Name: name, Mode: readable, Size: int64(len(content)), ModTime: e.now}
	if err := e.archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := e.archive.Write(content)
	return err
}

// stream copies one stream, member by member, and returns its span. A member is complete when it has reached
// memberBytes. Records are stripped one by one.
func (e *export) stream(ctx context.Context, src rerun.Source, s eventlog.Stream) (Span, error) {
	var span Span
	records, err := src.Open(ctx, s, 1)
	if err != nil {
		return span, err
	}
	defer records.Close()
	var text bytes.Buffer
	var first uint64
	lines := json.NewEncoder(&text)
	for {
		r, err := records.Next(ctx)
		if err != nil && !errors.Is(err, io.EOF) {
			return span, err
		}
		// A member is written when it is large enough, and at the end of the stream.
		ended := err != nil
		if text.Len() >= memberBytes && r.Index == 0 || ended && text.Len() > 0 {
			if err := e.add(memberName(string(s), first), pack(e.packer, text.Bytes())); err != nil {
				return span, err
			}
			text.Reset()
		}
		if ended {
			return span, nil
		}
		if text.Len() == 0 {
			first = r.Sequence
		}
		if span.First == 0 {
			span.First = r.Sequence
		}
		span.Last = r.Sequence
		e.frames = e.frames || r.Index > 0
		r = e.stripped(s, r)
		encoded := line{
			Sequence: r.Sequence, Index: r.Index, Time: r.Time.UTC(), Subject: r.Subject, Header: r.Header, Data: r.Data,
		}
		if err := lines.Encode(encoded); err != nil {
			return span, err
		}
	}
}
