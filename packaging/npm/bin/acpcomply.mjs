#!/usr/bin/env node
import { launch } from '../lib/launch.mjs';

launch(['comply', '--always-markdown']);
