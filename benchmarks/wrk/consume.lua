-- Pops batches of MESSAGES for GROUPS groups in turn, and settles each lease that comes back.
-- Prints how many messages it settled.
local messages = os.getenv("MESSAGES")
local groups = tonumber(os.getenv("GROUPS") or 1)
local count = 0
local leases = {}
local threads = {}

function setup(thread) table.insert(threads, thread) end

function init()
  settled = 0
  wrk.headers["Content-Type"] = "application/json"
end

function request()
  local lease = table.remove(leases)
  if lease then return wrk.format("POST", "/api/v1/lease/" .. lease .. "/settle", nil, '{"status":"completed"}') end
  count = count + 1
  local group = "bench" .. count % groups
  return wrk.format(
    "GET", "/api/v1/pop/queue/orders?consumerGroup=" .. group .. "&batch=" .. messages)
end

function response(status, headers, body)
  if status ~= 200 then return end
  local lease = body:match('"leaseId":"([^"]+)"')
  if lease then
    table.insert(leases, lease)
  else
    settled = settled + tonumber(body:match('"completed":(%d+)') or 0)
  end
end

function done(summary)
  local total = 0
  for _, thread in ipairs(threads) do total = total + thread:get("settled") end
  io.write("settled " .. total / (summary.duration / 1e6) .. "\n")
end
