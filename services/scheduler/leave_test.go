package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
)

// unansweringLog is a log that does not answer appends to the decisions; appended is closed at the first of them.
type unansweringLog struct {
	eventlog.Log
	once     sync.Once
	appended chan struct{}
}

func (m *unansweringLog) Append(
	ctx context.Context, stream eventlog.Stream, tail eventlog.Tail, msgs []eventlog.Message,
) (uint64, error) {
	if stream != eventlog.Decisions {
		return m.Log.Append(ctx, stream, tail, msgs)
	}
	m.once.Do(func() { close(m.appended) })
	<-ctx.Done()
	return 0, ctx.Err()
}

// A shard that stops while the log does not answer gives up the last decisions after a while, and leaves.
func TestAStoppedShardDoesNotWaitForTheLog(t *testing.T) {
	s := newSite(t)
	log := &unansweringLog{Log: s.log, appended: make(chan struct{})}
	s.node("n0")
	pod := s.pod("p0", "100m")
	stop := s.startOn(log, "scheduler-0")
	s.ready("scheduler-0")
	s.offer([]string{"scheduler-0"}, pod)
	select {
	case <-log.appended:
	case <-time.After(patience):
		t.Fatalf("no decision in %s", patience)
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("stop: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("the shard still runs %s after it was stopped", patience)
	}
}
