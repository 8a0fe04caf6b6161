package flashsale

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/common.lua
var luaCommon string

//go:embed lua/admit.lua
var luaAdmit string

//go:embed lua/settle.lua
var luaSettle string

//go:embed lua/release.lua
var luaRelease string

//go:embed lua/load.lua
var luaLoad string

//go:embed lua/change.lua
var luaChange string

//go:embed lua/withdraw.lua
var luaWithdraw string

//go:embed lua/answer.lua
var luaAnswer string

//go:embed lua/standing.lua
var luaStanding string

// None of these is sent again by the client when a reply is lost: the service decides about that.
var (
	admitScript    = newScript(luaAdmit)
	settleScript   = newScript(luaSettle)
	releaseScript  = newScript(luaRelease)
	changeScript   = newScript(luaChange)
	withdrawScript = newScript(luaWithdraw)
	loadScript     = newScript(luaLoad)
	standingScript = newScript(luaStanding)
	answerScript   = newScript(luaAnswer)
)

// script is a Lua program that the server knows by its hash.
type script struct {
	text, hash string
	*rueidis.Lua
}

func newScript(body string) script {
	text := luaCommon + body
	sum := sha1.Sum([]byte(text)) // by which Redis names scripts
	return script{text: text, hash: hex.EncodeToString(sum[:]), Lua: rueidis.NewLuaScript(text)}
}

// read runs a script that writes nothing on the keys of several sales, in one round trip if all servers know it.
func (s script) read(ctx context.Context, c rueidis.Client, sales [][]string) []rueidis.RedisResult {
	commands := make(rueidis.Commands, len(sales))
	for i, keys := range sales {
		commands[i] = c.B().EvalshaRo().Sha1(s.hash).Numkeys(int64(len(keys))).Key(keys...).Build()
	}
	results := c.DoMulti(ctx, commands...)
	for i, res := range results {
		if e, ok := rueidis.IsRedisErr(res.Error()); ok && e.IsNoScript() {
			results[i] = c.Do(ctx, c.B().EvalRo().Script(s.text).Numkeys(int64(len(sales[i]))).Key(sales[i]...).Build())
		}
	}
	return results
}

// causeOf reads a script's answer "not loaded".
func causeOf(res rueidis.RedisResult) (cause Cause, closed bool) {
	switch n, err := res.AsInt64(); {
	case err != nil || n >= 0:
		return "", false
	case n == -1:
		return CauseAbsent, true
	case n == -2:
		return CauseForeign, true
	default:
		return CauseDamaged, true
	}
}

// refusals are the errors with which a server declines a script, or a script itself, before its first write.
var refusals = []string{"OOM", "LOADING", "READONLY", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "NOQUEUE"}

// outcome marks the errors after which nothing has been done.
func outcome(err error) error {
	if err == nil {
		return nil
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: %w", ErrNotDone, err)
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		if code, _, _ := strings.Cut(e.Error(), " "); slices.Contains(refusals, code) {
			return fmt.Errorf("%w: %w", ErrNotDone, err)
		}
	}
	return err
}

// wrongType reports that a key is not what the gate makes of it: somebody else's hand.
func wrongType(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(e.Error(), "WRONGTYPE")
}
