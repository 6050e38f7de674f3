package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// snapshotBucket is the object store of all streams' snapshots; objects have the names of
	// the streams.
	snapshotBucket = "berth-snapshots"
	// snapshotSequence is the key of an object's metadata that holds the sequence.
	snapshotSequence = "sequence"
	// snapshotTimeout bounds the transfer of a snapshot when the caller sets no deadline; the
	// client's own bound is for single requests.
	snapshotTimeout = time.Minute
	// firstAttempt bounds the first attempt to read a snapshot, attemptFactor is by how much the
	// next ones may take longer. When another takes a snapshot's place after its contents were looked
	// up and before its first part was asked for, nothing comes any more, and the client waits for it
	// as long as it may.
	firstAttempt  = 2 * time.Second
	attemptFactor = 4
)

// snapshotBackoff spaces the attempts to read a snapshot that was replaced meanwhile: its
// parts vanish under the reader.
var snapshotBackoff = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 4}

func (l *Log) ensureSnapshots(ctx context.Context, cfg Config) (jetstream.ObjectStore, error) {
	store, err := l.js.ObjectStore(ctx, snapshotBucket)
	if err == nil && cfg.Replicas == 0 {
		return store, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, err
	}
	return l.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket:      snapshotBucket,
		Description: "berth: newest state snapshot of each stream",
		Storage:     jetstream.FileStorage,
		Replicas:    max(cfg.Replicas, DefaultReplicas),
	})
}

// Put implements events.Snapshots. The previous snapshot stays until the new one is complete.
func (l *Log) Put(ctx context.Context, name events.Stream, sequence uint64, data []byte) error {
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

// Latest implements events.Snapshots.
func (l *Log) Latest(ctx context.Context, name events.Stream) (sequence uint64, data []byte, ok bool, err error) {
	if err := l.check(name); err != nil {
		return 0, nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	var last error
	limit := firstAttempt
	err = wait.ExponentialBackoffWithContext(ctx, snapshotBackoff, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		limit *= attemptFactor
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

func (l *Log) getSnapshot(ctx context.Context, name events.Stream) (sequence uint64, data []byte, err error) {
	object, err := l.snapshots.Get(ctx, string(name))
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	info, err := object.Info()
	if err != nil {
		return 0, nil, err
	}
	text := info.Metadata[snapshotSequence]
	if sequence, err = strconv.ParseUint(text, 10, 64); err != nil {
		return 0, nil, fmt.Errorf("metadata %s is %q, want a decimal number", snapshotSequence, text)
	}
	data, err = io.ReadAll(object) // checks the digest at the end
	return sequence, data, err
}
