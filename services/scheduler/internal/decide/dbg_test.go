package decide_test

import (
	"fmt"
	"testing"
)

func TestDbg(t *testing.T) {
	dbg = func(f string, a ...any) { fmt.Printf(f+"\n", a...) }
	defer func() { dbg = nil }()
	w := crossWorld(t, 1234, nil)
	fmt.Println(w.broken); w.comeToRest(); fmt.Println(w.broken)
}
