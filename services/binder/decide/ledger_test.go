package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

func TestMovedListsEachDocumentOnceAsItIsNow(t *testing.T) {
	doc := func(uid string, revision int64) ledger.NodeDoc {
		return ledger.NodeDoc{NodeUID: uid, Revision: revision}
	}
	docs, deleted := moved(replica.Changes{Docs: []replica.DocChange{
		{After: doc("a", 1)},
		{After: doc("b", 2)},
		{Before: doc("a", 1), After: doc("a", 3)},
		{Before: doc("b", 2)},
	}})
	want := []*replica.DocChange{{Before: doc("a", 1), After: doc("a", 3)}}
	if diff := cmp.Diff(want, docs); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b"}, deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}
