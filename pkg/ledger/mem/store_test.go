package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgertest"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) { ledgertest.Run(t, open) }

func TestProtocol(t *testing.T) { ledgertest.RunProtocol(t, open) }

func open(*testing.T) ledgertest.Harness {
	s := mem.New()
	return ledgertest.Harness{
		Store:     s,
		Elections: s,
		Compact: func(t *testing.T, revision int64) {
			if err := s.Compact(revision); err != nil {
				t.Fatal(err)
			}
		},
		Expire: func(t *testing.T, lease int64) {
			if !s.Expire(lease) {
				t.Fatalf("no lease %x", lease)
			}
		},
	}
}
