package waiting

import "testing"

func TestVerdictsAreValidUntilTheirFactsAreLost(t *testing.T) {
	s := Epochs{{2, 10}, {5, 8}, {6, 20}}
	for _, test := range []struct{ sequence, epoch, want uint64 }{
		{30, 0, 30}, {30, 1, 0}, {7, 1, 7}, {6, 1, 6}, {8, 2, 0}, {30, 5, 0}, {19, 5, 19}, {30, 6, 30}, {30, 7, 30},
	} {
		if got := s.Valid(test.sequence, test.epoch); got != test.want {
			t.Errorf("%d of epoch %d stands as %d, want %d", test.sequence, test.epoch, got, test.want)
		}
	}
}
