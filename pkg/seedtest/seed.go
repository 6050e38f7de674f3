package seedtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	_ "pgregory.net/rapid" // has the flag that init sets
)

const (
	// Variable is the environment's name for the seed.
	Variable = "TEST_SEED"
	// Fixed is the seed without one.
	Fixed = 1
	// random, as the value of Variable, has every test draw a seed.
	random = "random"
)

func init() {
	seed, err := parse(os.Getenv(Variable))
	if err == nil {
		_, set := os.LookupEnv("RAPID_SEED")
		if !set {
			err = flag.Set("rapid.seed", strconv.FormatUint(seed, 10))
		}
	}
	if err != nil {
		panic(err)
	}
}

// parse returns the seed that a value of Variable asks for; 0 is to draw one.
func parse(value string) (uint64, error) {
	switch value {
	case "":
		return Fixed, nil
	case random:
		return 0, nil
	}
	seed, err := strconv.ParseUint(value, 10, 63)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("%s is %q, want %q or a whole number from 1 to 9223372036854775807", Variable, value, random)
	}
	return seed, nil
}

// Lacks reports something that the cases of a test have not met, so that they prove too little: an error if enough
// of them were played, or if they began with the fixed seed. From other seeds a few cases may lack it by chance, and
// then it is logged. asked is as for First.
func Lacks(t testing.TB, asked uint64, enough bool, format string, args ...any) {
	t.Helper()
	if enough || asked == 0 && os.Getenv(Variable) == "" {
		t.Errorf("the input is lopsided: "+format, args...)
		return
	}
	t.Logf("the input is lopsided, which may be chance: "+format, args...)
}

// First returns the seed of a test's first case and logs it: the one asked for by a flag of the test,
// if that is not 0, else the one of the environment. The next cases may count up from it.
func First(t testing.TB, asked uint64) uint64 {
	t.Helper()
	seed := asked
	if seed == 0 {
		var err error
		if seed, err = parse(os.Getenv(Variable)); err != nil {
			t.Fatal(err)
		}
	}
	if seed == 0 {
		seed = rand.Uint64()>>1 + 1
	}
	t.Logf("first seed %d", seed)
	return seed
}
