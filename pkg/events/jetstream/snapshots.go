package jetstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

const (
	// snapshotBucket is the object store of all streams' snapshots; objects have the names of the streams.
	snapshotBucket = "berth-snapshots"
	// snapshotSequence is the key of an object's metadata that holds the sequence.
	snapshotSequence = "sequence"
	// snapshotTimeout bounds the transfer of a snapshot when the caller sets no deadline; the
	// client's own bound is for single requests.
	snapshotTimeout = time.Minute
	// snapshotStream and snapshotParts are the stream that keeps the object store, and the subjects of the parts of
	// its objects, as all clients of NATS name them (ADR-20).
	snapshotStream = "OBJ_" + snapshotBucket
	snapshotParts  = "$O." + snapshotBucket + ".C."
)

// snapshotBackoff spaces the attempts to read a snapshot that was replaced in the meantime: its parts vanish while
// they are read, or a replica that answers does not have them yet. It adds up to about six seconds.
var snapshotBackoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 8}

// ensureSnapshots creates or updates the object store.
func (l *Log) ensureSnapshots(ctx context.Context, cfg Config) (err error) {
	l.snapshots, err = l.js.ObjectStore(ctx, snapshotBucket)
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	if err != nil || cfg.Replicas != 0 {
		if l.snapshots, err = l.makeSnapshots(ctx, cfg); err != nil {
			return err
		}
	}
	l.objects, err = l.js.Stream(ctx, snapshotStream)
	return err
}

// makeSnapshots creates the object store, or changes the number of its replicas.
func (l *Log) makeSnapshots(ctx context.Context, cfg Config) (jetstream.ObjectStore, error) {
	return l.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket:      snapshotBucket,
		Description: "berth: newest state snapshot of each stream",
		Storage:     jetstream.FileStorage,
		Replicas:    max(cfg.Replicas, DefaultReplicas),
	})
}

// Put implements eventlog.Snapshots. The previous snapshot stays until the new one is complete.
func (l *Log) Put(ctx context.Context, name eventlog.Stream, sequence uint64, data []byte) error {
	if err := l.check(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	meta := jetstream.ObjectMeta{
		Name:     string(name),
		Metadata: map[string]string{snapshotSequence: strconv.FormatUint(sequence, 10)},
	}
	if _, err := l.snapshots.Put(ctx, meta, bytes.NewReader(data)); err != nil {
		return l.explain(fmt.Errorf("jetstream: put snapshot of stream %s at %d: %w", name, sequence, err))
	}
	return nil
}

// Latest implements eventlog.Snapshots. It tries again if an object cannot be read completely: a new snapshot may
// have replaced it in the meantime.
func (l *Log) Latest(ctx context.Context, name eventlog.Stream) (sequence uint64, data []byte, ok bool, err error) {
	if err := l.check(name); err != nil {
		return 0, nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	var last error
	err = wait.ExponentialBackoffWithContext(ctx, snapshotBackoff, func(ctx context.Context) (bool, error) {
		sequence, data, last = l.getSnapshot(ctx, name)
		return last == nil || errors.Is(last, jetstream.ErrObjectNotFound), nil
	})
	switch {
	case errors.Is(last, jetstream.ErrObjectNotFound):
		return 0, nil, false, nil
	case last != nil:
		return 0, nil, false, l.explain(fmt.Errorf("jetstream: get snapshot of stream %s: %w", name, last))
	case err != nil:
		return 0, nil, false, l.explain(err)
	}
	return sequence, data, true, nil
}

// getSnapshot makes one attempt to read the newest snapshot, with the sequence in its metadata.
func (l *Log) getSnapshot(ctx context.Context, name eventlog.Stream) (sequence uint64, data []byte, err error) {
	info, err := l.snapshots.GetInfo(ctx, string(name))
	if err != nil {
		return 0, nil, err
	}
	text := info.Metadata[snapshotSequence]
	if sequence, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, nil, fmt.Errorf("metadata %s is %q, want a decimal number", snapshotSequence, text)
	}
	data, err = l.parts(ctx, info)
	return sequence, data, err
}

// parts requests the parts of an object one by one. The client's own Get makes the server push them to a subject.
// That subject is in the account of the streams, and a service in another account does not receive it; a service
// that could receive it could name any subject of that account.
func (l *Log) parts(ctx context.Context, info *jetstream.ObjectInfo) ([]byte, error) {
	want, err := jetstream.DecodeObjectDigest(info.Digest)
	if err != nil {
		return nil, fmt.Errorf("digest %q: %w", info.Digest, err)
	}
	var data []byte
	from := uint64(1)
	for part := range info.Chunks {
		m, err := l.objects.GetMsg(ctx, from, jetstream.WithGetMsgSubject(snapshotParts+info.NUID))
		if err != nil {
			return nil, fmt.Errorf("part %d of %d: %w", part+1, info.Chunks, err)
		}
		data = append(data, m.Data...)
		from = m.Sequence + 1
	}
	if have := sha256.Sum256(data); !bytes.Equal(have[:], want) {
		return nil, fmt.Errorf("digest of %d bytes is %x, want %x", len(data), have, want)
	}
	return data, nil
}
