-- Pushes of MESSAGES messages each, over PARTITIONS partitions, with ids of their own if IDS is set.
local messages = tonumber(os.getenv("MESSAGES"))
local partitions = tonumber(os.getenv("PARTITIONS"))
local ids = os.getenv("IDS") == "1"

-- Two hundred bytes of which no two are alike: what is stored must not shrink more than orders do.
local function payload()
  local note = {}
  for i = 1, 16 do note[i] = string.format("%08x", math.random(0, 2147483647)) end
  return '{"order":12345,"customer":"alice","items":["tea","rice","salt"],"note":"'
    .. table.concat(note) .. '"}'
end
local count = 0
local ready = {}

local function body(partition, with_ids)
  local items = {}
  for i = 1, messages do
    local id = with_ids and ('"transactionId":"' .. count .. "-" .. i .. '",') or ""
    items[i] = '{"queue":"orders","partition":"p' .. partition .. '",' .. id
      .. '"payload":' .. payload() .. "}"
  end
  return wrk.format("POST", nil, nil, '{"items":[' .. table.concat(items, ",") .. "]}")
end

function init()
  wrk.headers["Content-Type"] = "application/json"
  -- As many as fit: with many partitions a body serves several of them in turn.
  for partition = 0, partitions - 1 do ready[partition] = ids or body(partition, false) end
end

function request()
  count = count + 1
  local partition = (count * 7) % partitions
  if ids then return body(partition, true) end
  return ready[partition]
end
