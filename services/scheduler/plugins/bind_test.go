package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Bind plugins are asked in their order until one does not skip the pod; those after DefaultBinder are never asked.
func TestBind(t *testing.T) {
	skip, broken := framework.NewStatus(framework.Skip), framework.AsStatus(errors.New("broken"))
	refused := framework.NewStatus(framework.Unschedulable, "no", "never")
	for _, test := range []struct {
		name          string
		binds         int
		noBinder      bool
		statuses      map[string]*framework.Status
		calls         string
		by, err, then string
	}{
		{"the first binds", 2, false, nil, "Bind A", "A", "", ""},
		{"the second does", 2, false, map[string]*framework.Status{"Bind A": skip}, "Bind A, Bind B", "B", "", ""},
		{"none does", 2, false, map[string]*framework.Status{"Bind A": skip, "Bind B": skip}, "Bind A, Bind B", "", "", ""},
		{"one before DefaultBinder", 1, false, map[string]*framework.Status{"Bind A": skip}, "Bind A", "", "", ""},
		{"one fails", 2, false, map[string]*framework.Status{"Bind A": broken}, "Bind A", "",
			`running Bind plugin "A": broken`, "Unreserve B, Unreserve A"},
		{"one refuses", 2, false, map[string]*framework.Status{"Bind A": refused}, "Bind A", "", "no, never",
			"Unreserve B, Unreserve A"},
		{"nobody is left", 0, true, map[string]*framework.Status{"Bind A": skip, "Bind B": skip}, "Bind A, Bind B", "",
			"all Bind plugins skip the pod, and DefaultBinder is disabled", "Unreserve B, Unreserve A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newBindingPluginSet(t, test.binds, test.noBinder)
			defer c.stop()
			c.statuses = test.statuses
			if a := c.do(step.ActReserve); !a.Binds || a.By != "" {
				t.Fatalf("%+v, want that plugins bind", a)
			}
			before := c.callLog() + ", "
			a := c.do(step.ActBind)
			failed := ""
			if a.Err != nil {
				failed = a.Err.Error()
			}
			if a.By != test.by || failed != test.err {
				t.Errorf("by %q, failed %q, want %q and %q", a.By, failed, test.by, test.err)
			}
			if test.then != "" {
				test.calls += ", " + test.then
			}
			c.want(before + test.calls)
			c.do(step.ActBound)
			if posted := strings.Contains(c.callLog(), "PostBind"); posted != (test.then == "") {
				t.Errorf("%s: want PostBind unless it has failed", c.callLog())
			}
		})
	}
}

// A set whose Bind plugins come after DefaultBinder leaves the bind to the binders.
func TestBindAfterDefaultBinder(t *testing.T) {
	c := newPluginSet(t)
	defer c.stop()
	if a := c.do(step.ActReserve); a.Binds {
		t.Error("plugins are to bind")
	}
}

// A Bind plugin has limited time, and its context ends when the place has been taken back.
func TestBindEnds(t *testing.T) {
	for _, takenBack := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newBindingPluginSet(t, 2, false)
			defer c.stop()
			c.do(step.ActReserve)
			c.before = func(ctx context.Context) { <-ctx.Done() }
			bound := make(chan step.PluginResult, 1)
			begin := time.Now()
			go func() { bound <- c.do(step.ActBind) }()
			synctest.Wait()
			if takenBack {
				c.do(step.ActUndo)
			}
			a := <-bound
			took, want := time.Since(begin), time.Duration(0)
			if !takenBack {
				want = txns.DelegatedFor
			}
			if a.Err == nil || took != want {
				t.Errorf("%v after %v, want an error after %v", a.Err, took, want)
			}
			if n := strings.Count(c.callLog(), "Unreserve A"); n != 1 {
				t.Errorf("undone %d times", n)
			}
		})
	}
}
