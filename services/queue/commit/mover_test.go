package commit

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
)

func TestTheMoverRequestsOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store, sent := mem.New(), &bytes.Buffer{}
		m := NewMover(store, slog.New(slog.NewTextHandler(sent, nil)))
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		wanted := func(want map[int32]string) {
			t.Helper()
			synctest.Wait()
			kvs, revision, err := store.List(ctx, "")
			if err != nil {
				t.Fatal(err)
			}
			v := replica.NewView()
			if err := v.Reset(kvs, revision); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, maps.Collect(v.Roster().Wanted())); diff != "" {
				t.Errorf("wanted (-want +got):\n%s", diff)
			}
		}
		m.Move([]balance.Move{
			{Partition: 3, From: "s0", To: "s1", Reason: balance.ReasonBacklog, Pods: 12},
			{Partition: 200, From: "s0", To: "s2", Reason: balance.ReasonSilent},
		})
		wanted(map[int32]string{3: "s1", 200: "s2"})
		if want := `partition=3 from=s0 to=s1 reason=backlog waiting=12`; !strings.Contains(sent.String(), want) {
			t.Errorf("the log says\n%swant %s", sent, want)
		}
		store.FailTxns(1)
		m.Move([]balance.Move{{Partition: 3, From: "s1", Reason: balance.ReasonEven}})
		wanted(map[int32]string{3: "s1", 200: "s2"})
		m.Move([]balance.Move{{Partition: 3, From: "s1", Reason: balance.ReasonEven}, {Partition: 4}})
		wanted(map[int32]string{200: "s2"})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for range moveBuffer + 1 {
			m.Move(nil) // no reader takes it, and no call blocks
		}
	})
}
