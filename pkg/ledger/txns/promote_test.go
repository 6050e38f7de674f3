package txns

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

// A hold in the document of a node whose name stands for another node is not promoted.
func TestPromotionOnANodeThatLostItsName(t *testing.T) {
	d := sampletest.DocOf(sampletest.Reservation("p", ledger.Held, 1))
	d.SupersededBy = "n2"
	_, err := Promote(Promotion{
		Authority: Authority{Epochs: map[int32]int64{ledger.PartitionOf("p"): 1}}, Target: d, PodUID: "p", Token: 1,
		PodRV: 200,
		Fits:  true, Facts: farFacts{},
	})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "stands for another node, n2") {
		t.Errorf("Promote: %v, want *RefusedError that names the other node", err)
	}
}
