'use strict';
// Checks of incoming params.
const path = require('node:path');
const { RpcError, isObject, BAD_PARAMS } = require('./wire');

function bad(message) {
  return new RpcError(BAD_PARAMS, message);
}

function text(params, key) {
  if (typeof params[key] !== 'string') throw bad(`${key} must be a string.`);
  return params[key];
}

function folder(params, key) {
  const value = text(params, key);
  if (!path.isAbsolute(value)) throw bad(`${key} must be an absolute path.`);
  return path.normalize(value);
}

function folders(value) {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw bad('additionalDirectories must be a list.');
  return value.map((entry) => {
    if (typeof entry !== 'string' || !path.isAbsolute(entry)) {
      throw bad('Every additional directory must be an absolute path.');
    }
    return path.normalize(entry);
  });
}

function pairs(value, what) {
  const list = value ?? [];
  if (!Array.isArray(list)) throw bad(`${what} must be a list.`);
  for (const pair of list) {
    if (!isObject(pair) || typeof pair.name !== 'string' || typeof pair.value !== 'string') {
      throw bad(`${what} must hold names and values.`);
    }
  }
  return list;
}

function servers(value, needed) {
  if (value === undefined && needed) throw bad('mcpServers is missing.');
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw bad('mcpServers must be a list.');
  return value.map((server) => {
    if (!isObject(server)) throw bad('An MCP server must be an object.');
    const name = text(server, 'name');
    if (server.type === 'http') {
      return { type: 'http', name, url: text(server, 'url'), headers: pairs(server.headers, 'headers') };
    }
    if (server.type === 'sse') throw bad('MCP servers over SSE are not supported.');
    const args = server.args ?? [];
    if (!Array.isArray(args) || args.some((arg) => typeof arg !== 'string')) throw bad('args must hold strings.');
    return { type: 'stdio', name, command: text(server, 'command'), args, env: pairs(server.env, 'env') };
  });
}

function prompt(value) {
  if (!Array.isArray(value)) throw bad('prompt must be a list of content blocks.');
  for (const block of value) {
    if (!isObject(block)) throw bad('A content block must be an object.');
    switch (block.type) {
      case 'text':
        text(block, 'text');
        break;
      case 'resource_link':
        text(block, 'uri');
        text(block, 'name');
        break;
      case 'image':
        text(block, 'data');
        text(block, 'mimeType');
        break;
      case 'resource':
        if (!isObject(block.resource)) throw bad('resource must be an object.');
        text(block.resource, 'uri');
        if (typeof block.resource.text !== 'string') text(block.resource, 'blob');
        break;
      default:
        throw bad('Content of this type is not supported.');
    }
  }
  return value;
}

function version(value) {
  if (!Number.isInteger(value) || value < 0 || value > 65535) {
    throw bad('protocolVersion must be an integer from 0 to 65535.');
  }
}

module.exports = { bad, text, folder, folders, servers, prompt, version };
