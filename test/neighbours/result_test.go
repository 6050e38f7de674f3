package neighbours

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferences(t *testing.T) {
	of := func(value float64, margin Margin) Result {
		return Result{Measures: []Measure{{Name: "m", Value: value, Margin: margin}}}
	}
	ranks := func(values ...float64) Result {
		return Result{Measures: []Measure{{Name: "wait", Unit: "s", Ranks: values, Value: values[0], Margin: AtMost(30)}}}
	}
	for name, test := range map[string]struct {
		upstream, berth Result
		want            string
	}{
		"within":                    {of(10, Margin{}), of(11, Within(1)), ""},
		"more":                      {of(10, Margin{}), of(12, Within(1)), "m: 12, with kube-scheduler 10; accepted is ± 1"},
		"less":                      {of(10, Margin{}), of(8, Within(1)), "m: 8, with"},
		"much less, where at most":  {of(100, Margin{}), of(0, AtMost(1)), ""},
		"too much, where at most":   {of(100, Margin{}), of(102, AtMost(1)), "at most 1 more"},
		"much more, where at least": {of(0, Margin{}), of(100, AtLeast(0)), ""},
		"less, where at least":      {of(2, Margin{}), of(1, AtLeast(0)), "at most 0 less"},
		"anything":                  {of(1, Margin{}), of(1000, Anything()), ""},
		"the same":                  {of(1, Margin{}), of(2, Within(0)), "accepted is the same"},
		"wrong with Berth":          {Result{Wrong: []string{"a"}}, Result{Wrong: []string{"b"}}, "b"},
		"wrong with the other":      {Result{Wrong: []string{"a"}}, Result{}, ""},
		"missing here":              {of(1, Margin{}), Result{}, "Berth's run has no such measure"},
		"missing there":             {Result{}, of(1, Margin{}), "kube-scheduler's run has no such measure"},
		"ranks":                     {ranks(60, 10), ranks(80, 35), ""},
		"ranks, the second":         {ranks(60, 10), ranks(60, 45), "wait, rank 2: 45 s, with kube-scheduler 10 s"},
		"ranks, one more":           {ranks(60), ranks(60, 31), "wait, rank 2: 31 s, with kube-scheduler 0 s"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(Differences(test.upstream, test.berth), "; ")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	if _, err := Select([]string{"nobody"}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v, want an error that names what is not known", err)
	}
	var names []string
	all, err := Select([]string{"all"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		one, err := Select([]string{n.Name})
		if err != nil || len(one) != 1 || one[0].Name != n.Name {
			t.Errorf("%s: got %d neighbours, %v", n.Name, len(one), err)
		}
		names = append(names, n.Name)
	}
	none, err := Select(nil)
	if err != nil || len(none) != len(all) {
		t.Errorf("no name: got %d neighbours, %v, want %s", len(none), err, cmp.Diff(names, nil))
	}
}
