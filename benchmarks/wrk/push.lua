-- Pushes of MESSAGES messages each, over PARTITIONS partitions, with ids of their own if IDS is set.
-- PAYLOADS is the file that has them.
local messages = tonumber(os.getenv("MESSAGES"))
local partitions = tonumber(os.getenv("PARTITIONS"))
local ids = os.getenv("IDS") == "1"

-- A payload per line, used in turn.
local payloads = {}
for line in io.lines(os.getenv("PAYLOADS")) do payloads[#payloads + 1] = line end
local used = 0
local function payload()
  used = used + 1
  return payloads[used % #payloads + 1]
end

local count = 0
local bodies = {}

-- A body in pieces, with a gap before each piece but the first, for the name of the partition.
local function body()
  local pieces = {'{"items":['}
  for i = 1, messages do
    local comma = i > 1 and "," or ""
    pieces[#pieces] = pieces[#pieces] .. comma .. '{"queue":"orders","partition":"p'
    pieces[#pieces + 1] = '","payload":' .. payload() .. "}"
  end
  pieces[#pieces] = pieces[#pieces] .. "]}"
  return pieces
end

local function with_ids(pieces)
  local made = {pieces[1]}
  for i = 2, #pieces do
    made[i] = '","transactionId":"' .. count .. "-" .. i .. pieces[i]
  end
  return made
end

function init()
  wrk.headers["Content-Type"] = "application/json"
  for i = 0, 99 do bodies[i] = body() end
end

function request()
  count = count + 1
  local pieces = bodies[count % 100]
  if ids then pieces = with_ids(pieces) end
  return wrk.format("POST", nil, nil, table.concat(pieces, tostring((count * 7) % partitions)))
end
