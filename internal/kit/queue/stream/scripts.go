package stream

import (
	_ "embed"

	"github.com/redis/rueidis"
)

//go:embed lua/common.lua
var luaCommon string

//go:embed lua/append.lua
var luaAppend string

//go:embed lua/delay.lua
var luaDelay string

//go:embed lua/take.lua
var luaTake string

//go:embed lua/settle.lua
var luaSettle string

//go:embed lua/renew.lua
var luaRenew string

//go:embed lua/leave.lua
var luaLeave string

//go:embed lua/tidy.lua
var luaTidy string

//go:embed lua/depth.lua
var luaDepth string

//go:embed lua/backlog.lua
var luaBacklog string

//go:embed lua/remove.lua
var luaRemove string

// None of these is sent again by the client when a reply is lost.
var (
	appendScript  = rueidis.NewLuaScript(luaAppend)
	delayScript   = rueidis.NewLuaScript(luaCommon + luaDelay)
	takeScript    = rueidis.NewLuaScript(luaCommon + luaTake)
	settleScript  = rueidis.NewLuaScript(luaCommon + luaSettle)
	renewScript   = rueidis.NewLuaScript(luaRenew)
	leaveScript   = rueidis.NewLuaScript(luaLeave)
	tidyScript    = rueidis.NewLuaScript(luaTidy)
	depthScript   = rueidis.NewLuaScript(luaCommon + luaDepth)
	backlogScript = rueidis.NewLuaScript(luaCommon + luaBacklog)
	removeScript  = rueidis.NewLuaScript(luaCommon + luaRemove)
)
